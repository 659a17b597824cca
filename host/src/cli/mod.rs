//! Serve, migrate, doctor, admin.
