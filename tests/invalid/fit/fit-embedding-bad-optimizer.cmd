printf 'device,tables,rows,dim,batch,optimizer,time_us\nt4,1,9,8,4,sgdd,5\n' >bad.csv
"$STEPCAST" fit --kind embedding --table bad.csv --device t4
