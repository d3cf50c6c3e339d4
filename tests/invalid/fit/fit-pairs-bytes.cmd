printf 'device,kind,m,n,k,bytes,policy,compute_us,comm_us,overlapped_us\nmi300x,gemm,128,128,64,many,plain,9,9,12\n' >pairs.csv
"$STEPCAST" fit --kind interference --table pairs.csv --device mi300x
