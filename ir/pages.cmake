# Writes the pages of a folder as rows {"PS-OOB-001", R"page(...)page"}: cmake -DPAGES=FOLDER -DOUTPUT=FILE -P pages.cmake
file(GLOB pages ${PAGES}/PS-*.md)
set(rows "")
foreach(page ${pages})
  get_filename_component(code ${page} NAME_WE)
  file(READ ${page} text)
  string(APPEND rows "{\"${code}\",\nR\"page(${text})page\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${rows}")
