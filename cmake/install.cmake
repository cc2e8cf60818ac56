# What C++ programs need of an installation (docs/embedding.md): libraries, headers, the faster ISAs' kernels and a package for
# find_package(pallasim), component `cpp`; the program `pallasim`, component `cli`. The wheel has a component of its own (python/).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What a program links: pallasim::pallasim.
add_library(pallasim_all INTERFACE)
target_link_libraries(pallasim_all INTERFACE pallasim_interp pallasim_trace)
# The loader asks for the ISAs' kernels by name, too: they are found along the search path of who links the library.
target_link_options(pallasim_interp INTERFACE
  "$<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>")

set(libraries pallasim_ir pallasim_memory pallasim_hw pallasim_kernels pallasim_interp pallasim_trace pallasim_all)
foreach(library ${libraries})
  string(REPLACE pallasim_ "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
endforeach()
set_target_properties(pallasim_all PROPERTIES EXPORT_NAME pallasim)
target_compile_features(pallasim_ir PUBLIC cxx_std_20)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/pallasim)
install(TARGETS ${libraries} EXPORT pallasim ARCHIVE COMPONENT cpp)
foreach(folder ir memory_model hw_models interp trace)
  install(DIRECTORY ${folder}/include/pallasim TYPE INCLUDE COMPONENT cpp)
endforeach()
install(EXPORT pallasim FILE pallasimTargets.cmake NAMESPACE pallasim:: DESTINATION ${package} COMPONENT cpp)
configure_package_config_file(cmake/pallasimConfig.cmake.in ${PROJECT_BINARY_DIR}/pallasimConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pallasimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pallasimConfig.cmake ${PROJECT_BINARY_DIR}/pallasimConfigVersion.cmake DESTINATION ${package} COMPONENT cpp)

# `pallasim` looks into ../lib, wherever libraries lie otherwise.
install(TARGETS pallasim RUNTIME COMPONENT cli)
foreach(isa avx2 avx512)
  if(TARGET pallasim_kernels_${isa})
    install(TARGETS pallasim_kernels_${isa} LIBRARY COMPONENT cpp)
    install(TARGETS pallasim_kernels_${isa} LIBRARY DESTINATION lib COMPONENT cli)
  endif()
endforeach()
