"""A workload for coreutils or busybox: concurrent processes, links, appending, copying, renaming."""

SEVERAL_PROCESSES = """
seq 2000 >seed
(for i in 1 2 3 4 5 6; do cp seed copy.$i; mv copy.$i kept.$i; done) &
(for i in 1 2 3 4 5 6; do cat seed >>log; dd if=seed of=sparse bs=512 seek=$i count=3 conv=notrunc,fsync; done) &
(mkdir -p deep/er; ln -s ../seed deep/link; ln seed deep/er/hard; tar cf all.tar deep; rm -r deep) &
wait
truncate -s 3000 log
"""
"""No process reads what another one writes at the same time."""
