# Half of the result is missing, and rows 0 to 7 are those of the second block. Who wrote them?
continue
print o_ref.array[0:8, 0] - 3 * x_ref.array[0:8, 0]
last-write o_ref.array[0, 0]
# Grid point 1, which should write rows 8 to 15. Who wrote there before, and was it right?
last-write o_ref.array[0, 0]
print y[0, 0:4] - 3 * x_ref.array[0, 0:4]
# Block 0 belongs to points 0 and 1: out_specs divides by 2.
print program_id(0)
break scale.py:7 if program_id(0) == 1
continue
quit
