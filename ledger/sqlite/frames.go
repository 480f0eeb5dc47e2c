package sqlite

import (
	"encoding/binary"
	"sync"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// SQLite writes a transaction to its log with two calls of the system for each page, one
// for the head of a frame and one for the page. A begin and its settle make some fifty. The
// file system "frames" is that of the host, but that it holds the frames of a transaction
// until the last one, and writes them with one call.
//
// No one misses them before. Others look in the index of the log, where a transaction is
// only after its last frame is written; what this connection reads or syncs meanwhile has
// what is held written first. What is still held when the lock of writers is given up
// belongs to no transaction, and is forgotten: its place is the next writer's.
type frames struct {
	at   int64 // where in the log
	held []byte
	last bool // the newest one ends its transaction
}

const (
	frameHead = 24      // bytes: page, size of the database after a commit or 0, salt, checksum
	mostHeld  = 1 << 16 // bytes; with a page more it is less than what SQLite can write at once
)

// framesOf are those of a connection, by its two files: the ledger, and the log.
var framesOf sync.Map // *frames by uintptr

func framesIn(file uintptr) *frames {
	f, _ := framesOf.Load(file)
	own, _ := f.(*frames)
	return own
}

// What the host's file system does with files.
var (
	hostVFS             uintptr
	hostOpen            func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	hostRead, hostWrite func(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32
	hostSync            func(tls *libc.TLS, file uintptr, how int32) int32
	hostLock            func(tls *libc.TLS, file uintptr, first, n, how int32) int32
)

// methods are what can be done with a sort of file.
type methods struct {
	once      sync.Once
	host, own uintptr
}

var ledgers, logs methods

// framesVFS is the name of the file system.
var framesVFS = sync.OnceValue(func() string {
	tls := libc.NewTLS()
	defer tls.Close()
	hostVFS = lib.Xsqlite3_vfs_find(tls, 0)
	own := copied[lib.Tsqlite3_vfs](tls, hostVFS)
	vfs := there[*lib.Tsqlite3_vfs](own)
	name, err := libc.CString("frames")
	if err != nil {
		panic(err)
	}
	hostOpen = there[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](vfs.FxOpen)
	vfs.FzName, vfs.FxOpen = name, address(openFrames)
	lib.Xsqlite3_vfs_register(tls, own, 0)
	return "frames"
})

func openFrames(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
	rc := hostOpen(tls, hostVFS, name, file, flags, out)
	switch {
	case rc != lib.SQLITE_OK:
	case flags&lib.SQLITE_OPEN_MAIN_DB != 0:
		ledgers.replace(tls, file, func(m *lib.Tsqlite3_io_methods) {
			hostLock = there[func(*libc.TLS, uintptr, int32, int32, int32) int32](m.FxShmLock)
			m.FxShmLock = address(lockFrames)
		})
	case flags&lib.SQLITE_OPEN_WAL != 0:
		ledger := lib.Xsqlite3_database_file_object(tls, name)
		if there[*lib.Tsqlite3_file](ledger).FpMethods == ledgers.own && logs.replace(tls, file, func(m *lib.Tsqlite3_io_methods) {
			hostRead = there[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](m.FxRead)
			hostWrite = there[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](m.FxWrite)
			hostSync = there[func(*libc.TLS, uintptr, int32) int32](m.FxSync)
			m.FxRead, m.FxWrite, m.FxSync = address(readFrames), address(holdFrames), address(syncFrames)
		}) {
			f := new(frames)
			framesOf.Store(file, f)
			framesOf.Store(ledger, f)
		}
	}
	return rc
}

// replace gives a file the methods of here, if it has those of the first one that was
// opened; some systems have others on other disks.
func (m *methods) replace(tls *libc.TLS, file uintptr, with func(*lib.Tsqlite3_io_methods)) bool {
	f := there[*lib.Tsqlite3_file](file)
	m.once.Do(func() {
		m.host, m.own = f.FpMethods, copied[lib.Tsqlite3_io_methods](tls, f.FpMethods)
		with(there[*lib.Tsqlite3_io_methods](m.own))
	})
	if f.FpMethods != m.host {
		return false
	}
	f.FpMethods = m.own
	return true
}

// holdFrames is the write of a log.
func holdFrames(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32 {
	f := framesIn(file)
	if at != f.at+int64(len(f.held)) || len(f.held) > mostHeld {
		if rc := f.write(tls, file); rc != lib.SQLITE_OK {
			return rc
		}
	}
	if len(f.held) == 0 {
		f.at = at
	}
	part := unsafe.Slice(there[*byte](buf), n)
	f.held = append(f.held, part...)
	if n == frameHead {
		f.last = binary.BigEndian.Uint32(part[4:]) != 0
	}
	// The head of a last frame comes alone, without its page, where its sums are made anew.
	if !f.last || n == frameHead && len(f.held) > frameHead {
		return lib.SQLITE_OK
	}
	return f.write(tls, file)
}

func (f *frames) write(tls *libc.TLS, file uintptr) int32 {
	if len(f.held) == 0 {
		return lib.SQLITE_OK
	}
	held := f.held
	f.held = held[:0]
	return hostWrite(tls, file, uintptr(unsafe.Pointer(&held[0])), int32(len(held)), f.at)
}

func readFrames(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32 {
	if rc := framesIn(file).write(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return hostRead(tls, file, buf, n, at)
}

func syncFrames(tls *libc.TLS, file uintptr, how int32) int32 {
	if rc := framesIn(file).write(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return hostSync(tls, file, how)
}

// lockFrames locks and unlocks the index of a log. Its first lock is that of writers.
func lockFrames(tls *libc.TLS, ledger uintptr, first, n, how int32) int32 {
	if f := framesIn(ledger); f != nil && first == 0 && how&lib.SQLITE_SHM_UNLOCK != 0 {
		f.held = f.held[:0]
	}
	return hostLock(tls, ledger, first, n, how)
}

// there is what SQLite has at an address: a structure, or a function.
func there[T any](address uintptr) T { return *(*T)(unsafe.Pointer(&address)) }

// address is where SQLite finds a function.
func address(function any) uintptr { return (*[2]uintptr)(unsafe.Pointer(&function))[1] }

// copied is a copy that SQLite may have.
func copied[T any](tls *libc.TLS, of uintptr) (address uintptr) {
	address = libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(*new(T))))
	if address == 0 {
		panic("no memory for the file system")
	}
	*there[*T](address) = *there[*T](of)
	return address
}
