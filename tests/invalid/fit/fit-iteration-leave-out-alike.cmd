{ echo cluster.gpu,gpus,model.family,model.layers,model.hidden,model.heads,model.seq,training.global_batch,training.software,measured_ms; for i in 4 8 12; do echo "a100-sxm-80gb,8,gpt,$i,1024,16,1024,8,megatron-lm,$((i * 10))"; done; } >t.csv
"$STEPCAST" fit --kind iteration configs/base.yaml --table t.csv -q --coef software.host_op_us --leave-out cluster.gpu
