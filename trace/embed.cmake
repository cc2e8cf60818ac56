# The page with its style and script in it, as a header: OUT from PAGE, STYLE and SCRIPT. Literals are short: compilers
# need not take long ones.
cmake_minimum_required(VERSION 3.25)  # else @NAME@ is taken for a variable
file(READ ${PAGE} page)
file(READ ${STYLE} style)
file(READ ${SCRIPT} script)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(LENGTH "${page}" length)
set(literals "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${page}" ${at} 12000 part)
  string(APPEND literals "    R\"pallasim(${part})pallasim\"\n")
  math(EXPR at "${at} + 12000")
endwhile()
file(WRITE ${OUT} "#pragma once\nnamespace pallasim::trace {\ninline constexpr char kReportPage[] =\n${literals}    ;\n}\n")
