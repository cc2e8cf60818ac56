# Which grid point makes the NaN, and of what?
watch-nan o_ref.array
continue
reverse-next
print m
print x
print isnan(x / m)
# The first grid point multiplies by its number, 0.
print program_id(0)
where
