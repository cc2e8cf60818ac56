# Stop where the race is found, and not when its damage shows.
catch PS-RACE
continue
info threads
info semaphores
last-write o_hbm[1, 0, 0]
info flight
stepi
info flight
reverse-continue
