continue
info threads
info semaphores
thread 0
where
# Back to before the wait: nobody has signalled.
reverse-step
info threads
list
