//! Limits the memory and temporary files of one statement on SQLite.
//!
//! SQLite itself limits only a whole process. But sqlx runs each connection on its own thread, so usage per thread is
//! usage per connection: this module wraps SQLite's allocator and the writes to temporary files, and counts bytes per
//! thread. On the threads of scripts' connections both fail above a limit, and SQLite reports an error for the
//! statement.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libsqlite3_sys as ffi;

/// Maximum memory of a statement, in bytes.
const MAX_MEMORY: i64 = 64 << 20;
/// Maximum size of all temporary files of a connection, in bytes: they hold sorts, groups and DISTINCT.
const MAX_TEMP_FILES: i64 = 128 << 20;

/// Name of the VFS that counts the bytes of temporary files.
pub(super) const VFS: &str = "belvedere-scripts";
const VFS_NAME: &CStr = c"belvedere-scripts";
/// [`super::SQLITE_LENGTH_CHECK`] as a C string.
const LENGTH_CHECK_NAME: &CStr = c"belvedere_short";
const TOO_LONG: &CStr = c"an argument is too long";

thread_local! {
    /// Bytes that SQLite has allocated on this thread. Negative if it freed memory of other threads.
    static ALLOCATED: Cell<i64> = const { Cell::new(0) };
    /// [`ALLOCATED`] when the statement began; `None` on threads without a limit.
    static ALLOCATED_AT_START: Cell<Option<i64>> = const { Cell::new(None) };
    /// Sizes of the open temporary files, by the address of their handle.
    static TEMP_FILES: RefCell<HashMap<usize, i64>> = RefCell::default();
}

type OpenFn = unsafe extern "C" fn(
    *mut ffi::sqlite3_vfs,
    *const c_char,
    *mut ffi::sqlite3_file,
    c_int,
    *mut c_int,
) -> c_int;

/// SQLite's own allocator.
struct Allocator {
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    realloc: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

static ALLOCATOR: OnceLock<Allocator> = OnceLock::new();
static VFS_OPEN: OnceLock<OpenFn> = OnceLock::new();
/// The original methods of a temporary file, and those that count its bytes.
static FILE_METHODS: OnceLock<(ffi::sqlite3_io_methods, ffi::sqlite3_io_methods)> = OnceLock::new();

/// Wraps SQLite's allocator and registers the VFS, once. Returns false if the process used SQLite before.
pub(in crate::store) fn install() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| install_wrappers().is_some())
}

/// Starts the memory limit of a statement on this thread.
pub(in crate::store) fn begin() {
    ALLOCATED_AT_START.set(Some(ALLOCATED.get()));
}

#[expect(unsafe_code, reason = "there is no safe API for SQLite's configuration; no connection is open yet")]
fn install_wrappers() -> Option<()> {
    unsafe {
        let mut methods: ffi::sqlite3_mem_methods = std::mem::zeroed();
        if ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) != ffi::SQLITE_OK {
            return None;
        }
        let (malloc, free) = (methods.xMalloc?, methods.xFree?);
        let (realloc, size) = (methods.xRealloc?, methods.xSize?);
        ALLOCATOR.get_or_init(|| Allocator { malloc, free, realloc, size });
        methods.xMalloc = Some(counted_malloc);
        methods.xFree = Some(counted_free);
        methods.xRealloc = Some(counted_realloc);
        if ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) != ffi::SQLITE_OK {
            return None;
        }
        let base = ffi::sqlite3_vfs_find(ptr::null());
        if base.is_null() {
            return None;
        }
        let mut vfs = *base;
        let open = vfs.xOpen?;
        VFS_OPEN.get_or_init(|| open);
        vfs.zName = VFS_NAME.as_ptr();
        vfs.pNext = ptr::null_mut();
        vfs.xOpen = Some(open_counted);
        // SQLite keeps the pointer for the life of the process.
        let vfs = Box::leak(Box::new(vfs));
        (ffi::sqlite3_vfs_register(vfs, 0) == ffi::SQLITE_OK).then_some(())
    }
}

/// Whether `more` bytes would exceed the memory limit of this thread's statement.
fn exceeds_limit(more: i64) -> bool {
    ALLOCATED_AT_START
        .get()
        .is_some_and(|at_start| more > 0 && ALLOCATED.get() - at_start + more > MAX_MEMORY)
}

#[expect(unsafe_code, reason = "SQLite calls it in place of its own function")]
unsafe extern "C" fn counted_malloc(bytes: c_int) -> *mut c_void {
    let Some(allocator) = ALLOCATOR.get() else { return ptr::null_mut() };
    if exceeds_limit(bytes.into()) {
        return ptr::null_mut();
    }
    let at = unsafe { (allocator.malloc)(bytes) };
    if !at.is_null() {
        ALLOCATED.set(ALLOCATED.get() + i64::from(unsafe { (allocator.size)(at) }));
    }
    at
}

#[expect(unsafe_code, reason = "SQLite calls it in place of its own function")]
unsafe extern "C" fn counted_free(at: *mut c_void) {
    let Some(allocator) = ALLOCATOR.get() else { return };
    if !at.is_null() {
        ALLOCATED.set(ALLOCATED.get() - i64::from(unsafe { (allocator.size)(at) }));
        unsafe { (allocator.free)(at) };
    }
}

#[expect(unsafe_code, reason = "SQLite calls it in place of its own function")]
unsafe extern "C" fn counted_realloc(at: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(allocator) = ALLOCATOR.get() else { return ptr::null_mut() };
    let before = i64::from(unsafe { (allocator.size)(at) });
    if exceeds_limit(i64::from(bytes) - before) {
        return ptr::null_mut();
    }
    let moved = unsafe { (allocator.realloc)(at, bytes) };
    if !moved.is_null() {
        ALLOCATED.set(ALLOCATED.get() - before + i64::from(unsafe { (allocator.size)(moved) }));
    }
    moved
}

/// Opens a file. For temporary files it installs the methods that count bytes.
#[expect(unsafe_code, reason = "SQLite calls it in place of its own function")]
unsafe extern "C" fn open_counted(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(open) = VFS_OPEN.get() else { return ffi::SQLITE_CANTOPEN };
    let result = unsafe { open(vfs, name, file, flags, out) };
    if result != ffi::SQLITE_OK || flags & ffi::SQLITE_OPEN_DELETEONCLOSE == 0 {
        return result;
    }
    // SAFETY: SQLite sets the methods of an opened file; they live as long as the process.
    unsafe {
        let Some(methods) = (*file).pMethods.as_ref() else { return result };
        let (_, counted) = FILE_METHODS.get_or_init(|| {
            let mut counted = *methods;
            counted.xWrite = Some(counted_write);
            counted.xClose = Some(counted_close);
            (*methods, counted)
        });
        (*file).pMethods = counted;
    }
    TEMP_FILES.with_borrow_mut(|files| files.insert(file.addr(), 0));
    result
}

#[expect(unsafe_code, reason = "SQLite calls it in place of its own function")]
unsafe extern "C" fn counted_write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let end = offset + i64::from(bytes);
    let fits = TEMP_FILES.with_borrow_mut(|files| {
        let before = files.get(&file.addr()).copied().unwrap_or_default();
        let fits = files.values().sum::<i64>() - before + end.max(before) <= MAX_TEMP_FILES;
        if fits {
            files.insert(file.addr(), end.max(before));
        }
        fits
    });
    match FILE_METHODS.get().and_then(|(own, _)| own.xWrite) {
        Some(write) if fits => unsafe { write(file, from, bytes, offset) },
        _ => ffi::SQLITE_FULL,
    }
}

#[expect(unsafe_code, reason = "SQLite calls it in place of its own function")]
unsafe extern "C" fn counted_close(file: *mut ffi::sqlite3_file) -> c_int {
    TEMP_FILES.with_borrow_mut(|files| files.remove(&file.addr()));
    match FILE_METHODS.get().and_then(|(own, _)| own.xClose) {
        Some(close) => unsafe { close(file) },
        None => ffi::SQLITE_IOERR_CLOSE,
    }
}

/// Adds the function that rejects long arguments (`guard::bounds`) to a connection. CHECK constraints and indexes of
/// own tables may use it.
#[expect(unsafe_code, reason = "sqlx can't add functions; the connection is open and locked")]
pub(in crate::store) fn add_length_check(database: *mut ffi::sqlite3) -> bool {
    let flags = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS;
    let result = unsafe {
        ffi::sqlite3_create_function_v2(
            database,
            LENGTH_CHECK_NAME.as_ptr(),
            2,
            flags,
            ptr::null_mut(),
            Some(check_length),
            None,
            None,
            None,
        )
    };
    result == ffi::SQLITE_OK
}

#[expect(unsafe_code, reason = "SQLite calls it with the declared number of arguments")]
unsafe extern "C" fn check_length(
    context: *mut ffi::sqlite3_context,
    _count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    unsafe {
        let (value, max_bytes) = (*arguments, ffi::sqlite3_value_int64(*arguments.add(1)));
        let is_bytes = matches!(ffi::sqlite3_value_type(value), ffi::SQLITE_TEXT | ffi::SQLITE_BLOB);
        if is_bytes && i64::from(ffi::sqlite3_value_bytes(value)) > max_bytes {
            ffi::sqlite3_result_error(context, TOO_LONG.as_ptr(), -1);
        } else {
            ffi::sqlite3_result_value(context, value);
        }
    }
}
