//! SQLite: the host's connection or an own file, behind one thin statement layer.
