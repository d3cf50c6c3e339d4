$STEPCAST shard $FILE -q
