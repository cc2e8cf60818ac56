# Four devices, each with the same operands.
info threads
next
info flight
print to
thread 2
print to
continue
print o_ref[0, 0:4] - x_ref[0, 0:4]
print 3 ** 70
print 2 ** -1
quit
