# The sum is off. What does the accumulator hold before anything was added?
print sum_ref
last-write sum_ref[0, 0]
# Nobody has set it. And what is added to undefined elements stays undefined.
next
print sum_ref[0:2, 0:4]
catch PS-UNINIT
run
continue
info findings
