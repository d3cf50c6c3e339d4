# libstepcast: what src/lib/stepcast.h declares and nothing else, by the version script, which also names the ABI.
add_library(libstepcast SHARED)
target_sources(libstepcast PRIVATE $<TARGET_OBJECTS:sc_lib>)
set_target_properties(libstepcast PROPERTIES OUTPUT_NAME stepcast LINKER_LANGUAGE C
	VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
	PUBLIC_HEADER src/lib/stepcast.h
	LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/lib/stepcast.map)
target_link_libraries(libstepcast PRIVATE sc_report)
target_link_options(libstepcast PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/src/lib/stepcast.map
	LINKER:--as-needed)
if(NOT instrument) # what a sanitizer needs is the program's
	target_link_options(libstepcast PRIVATE LINKER:-z,defs)
endif()

file(RELATIVE_PATH SC_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/stepcast.pc.in stepcast.pc @ONLY)
