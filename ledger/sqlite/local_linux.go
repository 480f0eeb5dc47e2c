package sqlite

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// localTypes are the file systems known to be local (statfs magic numbers). On
// others, WAL's shared memory and locks may not hold between processes.
var localTypes = map[uint32]string{
	0xef53:     "ext4",
	0x58465342: "xfs",
	0x9123683e: "btrfs",
	0x01021994: "tmpfs",
	0x858458f6: "ramfs",
	0x794c7630: "overlayfs",
	0x2fc12fc1: "zfs",
	0xf2f52010: "f2fs",
	0xca451a4e: "bcachefs",
	0x3153464a: "jfs",
	0x52654973: "reiserfs",
	0x3434:     "nilfs2",
	0xf15f:     "ecryptfs",
	0x482b:     "hfs+",
	0x2011bab0: "exfat",
	0x7366746e: "ntfs3",
}

var remoteTypes = map[uint32]string{
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB",
	0x517b:     "SMB",
	0x65735546: "FUSE",
	0x01021997: "9p",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
}

// local refuses a file system that is not known to be local.
func local(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &st); err != nil {
		return fmt.Errorf("look at the ledger's file system: %w", err)
	}
	magic := uint32(st.Type)
	if localTypes[magic] != "" {
		return nil
	}
	name := remoteTypes[magic]
	if name == "" {
		name = fmt.Sprintf("an unknown file system (%#x)", magic)
	}
	return &Refusal{Code: "not_local", Path: path, After: " is on " + name + ", which is not known to be a local disk",
		Do: "keep the ledger on a local disk (ext4, xfs, btrfs, zfs, …)"}
}
