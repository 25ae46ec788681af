# What is installed where. Component "c", by `cmake --install BUILD --component c --prefix DIR`: the
# library, its headers, the commands, and what pkg-config and find_package(spyre) read. Component
# "python": the package torch_spyre, whose library lies in torch_spyre/lib.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(commands spyre_cli dxp_standalone aiu_smi)
set(command_rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

if(SKBUILD)     # packages hold no symbolic links: the file has the name that programs load
  # Commands lie in bin/, the package in one of these places beside it, whichever Python took it.
  foreach(lib lib lib64)
    foreach(python 3.11 3.12 3.13)
      foreach(packages site dist)
        list(APPEND command_rpath
          "$ORIGIN/../${lib}/python${python}/${packages}-packages/torch_spyre/lib")
      endforeach()
    endforeach()
  endforeach()
  list(APPEND command_rpath "$ORIGIN/../torch_spyre/lib")     # pip install --target
  install(TARGETS spyre LIBRARY DESTINATION torch_spyre/lib COMPONENT python NAMELINK_SKIP)
  install(TARGETS ${commands} RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
  # `make wheel` adds these libraries of the system; their licences ask for the notice.
  foreach(library libjansson4 libxxhash0)
    install(FILES /usr/share/doc/${library}/copyright DESTINATION torch_spyre/licenses
      RENAME ${library} COMPONENT python OPTIONAL)
  endforeach()
else()
  set_target_properties(spyre PROPERTIES VERSION ${PROJECT_VERSION})
endif()
set_target_properties(${commands} PROPERTIES INSTALL_RPATH "${command_rpath}")

install(TARGETS spyre EXPORT spyre_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT c)
install(TARGETS ${commands} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT c)
install(DIRECTORY include/spyre DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT c)

configure_file(cmake/spyre.pc.in spyre.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/spyre.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT c)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/spyre)
install(EXPORT spyre_targets FILE spyre-config.cmake NAMESPACE spyre:: DESTINATION ${package}
  COMPONENT c)
write_basic_package_version_file(spyre-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/spyre-config-version.cmake DESTINATION ${package}
  COMPONENT c)
