//! Room for one statement on SQLite: memory, and temporary files.
//!
//! SQLite has bounds for a whole process only. But each connection has a thread of its own (sqlx), so what is asked for on
//! a thread is asked for by its connection: SQLite's allocator and the writing of temporary files are wrapped, and count per
//! thread. On threads of scripts' connections both say no beyond a bound, which SQLite turns into an error of the statement.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libsqlite3_sys as ffi;

/// Memory that a statement may take.
const MAX_MEMORY: i64 = 64 << 20;
/// Temporary files of a connection: sorts, groups, DISTINCT.
const MAX_TEMPORARY: i64 = 128 << 20;
/// Steps of SQLite's machine between two looks at the clock. A step may be a function over the largest values, some
/// milliseconds; so many of them have to stay below half a second.
pub(in crate::store) const STEPS_PER_LOOK: i32 = 50;

/// The VFS whose temporary files are counted.
pub(super) const VFS: &str = "belvedere-scripts";
const VFS_NAME: &CStr = c"belvedere-scripts";
/// As [`super::SQLITE_SHORT`].
const SHORT_NAME: &CStr = c"belvedere_short";
const TOO_LONG: &CStr = c"an argument is too long";

thread_local! {
    /// Bytes that SQLite has on this thread. Less than nothing where it frees what another one asked for.
    static USED: Cell<i64> = const { Cell::new(0) };
    /// What it had when the statement began; `None` on threads without a bound.
    static BEGAN: Cell<Option<i64>> = const { Cell::new(None) };
    /// The sizes of the temporary files that are open, by the addresses of their handles.
    static FILES: RefCell<HashMap<usize, i64>> = RefCell::default();
}

type Open = unsafe extern "C" fn(
    *mut ffi::sqlite3_vfs,
    *const c_char,
    *mut ffi::sqlite3_file,
    c_int,
    *mut c_int,
) -> c_int;

/// SQLite's own allocator.
struct Memory {
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    realloc: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

static MEMORY: OnceLock<Memory> = OnceLock::new();
static OPEN: OnceLock<Open> = OnceLock::new();
/// What a temporary file does, and what it does when it is counted.
static FILE: OnceLock<(ffi::sqlite3_io_methods, ffi::sqlite3_io_methods)> = OnceLock::new();

/// Wraps SQLite's allocator and adds the VFS, once. False if a connection of the process was there before.
pub(in crate::store) fn install() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| wrap().is_some())
}

/// A statement begins on this thread: from here on it has its bound.
pub(in crate::store) fn begin() {
    BEGAN.set(Some(USED.get()));
}

#[expect(unsafe_code, reason = "SQLite's configuration has no safe form; no connection is open yet")]
fn wrap() -> Option<()> {
    unsafe {
        let mut methods: ffi::sqlite3_mem_methods = std::mem::zeroed();
        if ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) != ffi::SQLITE_OK {
            return None;
        }
        let (malloc, free) = (methods.xMalloc?, methods.xFree?);
        let (realloc, size) = (methods.xRealloc?, methods.xSize?);
        MEMORY.get_or_init(|| Memory { malloc, free, realloc, size });
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
        OPEN.get_or_init(|| open);
        vfs.zName = VFS_NAME.as_ptr();
        vfs.pNext = ptr::null_mut();
        vfs.xOpen = Some(open_counted);
        // It stays as long as the process.
        let vfs = Box::leak(Box::new(vfs));
        (ffi::sqlite3_vfs_register(vfs, 0) == ffi::SQLITE_OK).then_some(())
    }
}

/// Whether `more` bytes would be too many for the statement of this thread.
fn is_too_much(more: i64) -> bool {
    BEGAN.get().is_some_and(|began| more > 0 && USED.get() - began + more > MAX_MEMORY)
}

#[expect(unsafe_code, reason = "called by SQLite, in place of its own")]
unsafe extern "C" fn counted_malloc(bytes: c_int) -> *mut c_void {
    let Some(memory) = MEMORY.get() else { return ptr::null_mut() };
    if is_too_much(bytes.into()) {
        return ptr::null_mut();
    }
    let at = unsafe { (memory.malloc)(bytes) };
    if !at.is_null() {
        USED.set(USED.get() + i64::from(unsafe { (memory.size)(at) }));
    }
    at
}

#[expect(unsafe_code, reason = "called by SQLite, in place of its own")]
unsafe extern "C" fn counted_free(at: *mut c_void) {
    let Some(memory) = MEMORY.get() else { return };
    if !at.is_null() {
        USED.set(USED.get() - i64::from(unsafe { (memory.size)(at) }));
        unsafe { (memory.free)(at) };
    }
}

#[expect(unsafe_code, reason = "called by SQLite, in place of its own")]
unsafe extern "C" fn counted_realloc(at: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(memory) = MEMORY.get() else { return ptr::null_mut() };
    let before = i64::from(unsafe { (memory.size)(at) });
    if is_too_much(i64::from(bytes) - before) {
        return ptr::null_mut();
    }
    let moved = unsafe { (memory.realloc)(at, bytes) };
    if !moved.is_null() {
        USED.set(USED.get() - before + i64::from(unsafe { (memory.size)(moved) }));
    }
    moved
}

/// Opens a file; temporary ones are counted from here on.
#[expect(unsafe_code, reason = "called by SQLite, in place of its own")]
unsafe extern "C" fn open_counted(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(open) = OPEN.get() else { return ffi::SQLITE_CANTOPEN };
    let result = unsafe { open(vfs, name, file, flags, out) };
    if result != ffi::SQLITE_OK || flags & ffi::SQLITE_OPEN_DELETEONCLOSE == 0 {
        return result;
    }
    // SAFETY: a file that was opened has its methods, which stay as long as the process.
    unsafe {
        let Some(methods) = (*file).pMethods.as_ref() else { return result };
        let (_, counted) = FILE.get_or_init(|| {
            let mut counted = *methods;
            counted.xWrite = Some(counted_write);
            counted.xClose = Some(counted_close);
            (*methods, counted)
        });
        (*file).pMethods = counted;
    }
    FILES.with_borrow_mut(|files| files.insert(file.addr(), 0));
    result
}

#[expect(unsafe_code, reason = "called by SQLite, in place of its own")]
unsafe extern "C" fn counted_write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let end = offset + i64::from(bytes);
    let fits = FILES.with_borrow_mut(|files| {
        let before = files.get(&file.addr()).copied().unwrap_or_default();
        let fits = files.values().sum::<i64>() - before + end.max(before) <= MAX_TEMPORARY;
        if fits {
            files.insert(file.addr(), end.max(before));
        }
        fits
    });
    match FILE.get().and_then(|(own, _)| own.xWrite) {
        Some(write) if fits => unsafe { write(file, from, bytes, offset) },
        _ => ffi::SQLITE_FULL,
    }
}

#[expect(unsafe_code, reason = "called by SQLite, in place of its own")]
unsafe extern "C" fn counted_close(file: *mut ffi::sqlite3_file) -> c_int {
    FILES.with_borrow_mut(|files| files.remove(&file.addr()));
    match FILE.get().and_then(|(own, _)| own.xClose) {
        Some(close) => unsafe { close(file) },
        None => ffi::SQLITE_IOERR_CLOSE,
    }
}

/// Gives a connection the function that refuses long arguments (`guard::bounds`). It may be used in checks and indexes of
/// own tables.
#[expect(unsafe_code, reason = "sqlx can't add functions; the connection is open and locked")]
pub(in crate::store) fn add_short(database: *mut ffi::sqlite3) -> bool {
    let flags = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS;
    let result = unsafe {
        ffi::sqlite3_create_function_v2(
            database,
            SHORT_NAME.as_ptr(),
            2,
            flags,
            ptr::null_mut(),
            Some(short),
            None,
            None,
            None,
        )
    };
    result == ffi::SQLITE_OK
}

#[expect(unsafe_code, reason = "called by SQLite with as many arguments as were declared")]
unsafe extern "C" fn short(
    context: *mut ffi::sqlite3_context,
    _count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    unsafe {
        let (value, most) = (*arguments, ffi::sqlite3_value_int64(*arguments.add(1)));
        let is_bytes = matches!(ffi::sqlite3_value_type(value), ffi::SQLITE_TEXT | ffi::SQLITE_BLOB);
        if is_bytes && i64::from(ffi::sqlite3_value_bytes(value)) > most {
            ffi::sqlite3_result_error(context, TOO_LONG.as_ptr(), -1);
        } else {
            ffi::sqlite3_result_value(context, value);
        }
    }
}
