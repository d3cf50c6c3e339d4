"$STEPCAST" config import $FILE --set cluster.gpu=h100-sxm-80gb 
