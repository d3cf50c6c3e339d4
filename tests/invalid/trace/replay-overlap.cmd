"$STEPCAST" replay run --overlap all
