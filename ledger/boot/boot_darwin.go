package boot

import "golang.org/x/sys/unix"

func id() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
