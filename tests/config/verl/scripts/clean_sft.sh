#!/bin/bash
set -xe
if [ "$#" -lt 1 ]; then
    echo "usage: clean_sft.sh SAVE_PATH [overrides]"
    exit 1
fi
save_path=$1
shift
nproc_per_node=8
torchrun --standalone --nnodes=1 --nproc_per_node=$nproc_per_node \
    -m verl.trainer.sft_trainer \
    data.train_files=$HOME/data/multiturn/train.parquet \
    data.val_files=$HOME/data/multiturn/test.parquet \
    data.micro_batch_size_per_gpu=4 \
    data.max_length=4096 \
    model.path=Qwen/Qwen2.5-0.5B-Instruct \
    trainer.default_local_dir=$save_path \
    trainer.project_name=multiturn-sft \
    trainer.logger=console \
    trainer.total_epochs=3 "$@"
