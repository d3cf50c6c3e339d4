# What is installed, in three parts, which are the packages of cpack: the command, the library, what programs are
# built against it with. The command and the library both read the configs, so these are the library's.
set(data ${CMAKE_INSTALL_DATADIR})
install(TARGETS stepcast COMPONENT command)
install(TARGETS stepcast_capture LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/stepcast COMPONENT command)
if(MPI_C_FOUND)
	install(TARGETS stepcast_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/stepcast COMPONENT command)
endif()
install(FILES LICENSE NOTICE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
file(GLOB man_pages CONFIGURE_DEPENDS man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
install(FILES completion/stepcast.bash RENAME stepcast
	DESTINATION ${data}/bash-completion/completions COMPONENT command)

install(FILES completion/stepcast.zsh RENAME _stepcast
	DESTINATION ${data}/zsh/site-functions COMPONENT command)
install(FILES completion/stepcast.fish DESTINATION ${data}/fish/vendor_completions.d COMPONENT command)

install(TARGETS libstepcast
	LIBRARY COMPONENT library NAMELINK_COMPONENT development
	PUBLIC_HEADER COMPONENT development)
install(DIRECTORY configs/ DESTINATION ${data}/stepcast/configs COMPONENT library)
install(FILES ${PROJECT_BINARY_DIR}/stepcast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
	COMPONENT development)

# A wheel's (pyproject.toml), in the package's folder; without links, which wheels have none of.
if(SC_PYTHON)
	install(PROGRAMS $<TARGET_FILE:stepcast> DESTINATION stepcast/bin COMPONENT python)
	install(FILES $<TARGET_FILE:stepcast_capture> DESTINATION stepcast/lib COMPONENT python)
	install(FILES $<TARGET_FILE:libstepcast> RENAME libstepcast.so DESTINATION stepcast/lib COMPONENT python)
	install(DIRECTORY configs/ DESTINATION stepcast/share/stepcast/configs COMPONENT python)
	install(FILES README.md DESTINATION stepcast/share/doc/stepcast COMPONENT python)
	install(DIRECTORY docs DESTINATION stepcast/share/doc/stepcast COMPONENT python)
endif()

# cmake --build BUILD --target uninstall: what the last install into BUILD's prefix wrote, and folders of its own.
add_custom_target(uninstall
	COMMAND ${CMAKE_COMMAND} -DBINARY_DIR=${PROJECT_BINARY_DIR} -DOWN=${CMAKE_INSTALL_FULL_DATADIR}/stepcast
		-DOWN_LIB=${CMAKE_INSTALL_FULL_LIBDIR}/stepcast -DOWN_DOC=${CMAKE_INSTALL_FULL_DOCDIR}
		-P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
	VERBATIM)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR stepcast)
set(CPACK_PACKAGE_CONTACT "the stepcast developers <stepcast@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL command library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(soname libstepcast${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME stepcast)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${soname})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libstepcast-dev)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# The command reads the library's configs.
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "${soname} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${soname} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "${PROJECT_DESCRIPTION}\nThe command stepcast, its manual and its tracer.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "${PROJECT_DESCRIPTION}\nThe library, and the descriptions of devices, clusters, models and software.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${PROJECT_DESCRIPTION}\nThe header and the pkg-config file of the library.")
include(CPack)
