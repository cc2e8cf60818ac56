# What of the accumulator has nobody written, and what are no numbers?
break scores.py:6
continue
picture acc_ref
# Both signs: 0 is in the middle. An element for each cell, as far as there is room.
picture t.T
picture x_ref
picture acc_ref[0, 0]
picture
