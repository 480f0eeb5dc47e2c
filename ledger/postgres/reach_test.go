//go:build soak

package postgres

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// authority makes a certificate authority, and a server's certificate by it.
func authority(t *testing.T, name string) (ca, cert, key []byte) {
	t.Helper()
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	own := need.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootDER := need.Get(x509.CreateCertificate(rand.Reader, root, root, &own.PublicKey, own))(t)
	server := need.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "db"}, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	leafDER := need.Get(x509.CreateCertificate(rand.Reader, leaf, root, &server.PublicKey, own))(t)
	return block("CERTIFICATE", rootDER), block("CERTIFICATE", leafDER), block("PRIVATE KEY", need.Get(x509.MarshalPKCS8PrivateKey(server))(t))
}

// TLS, a password file, a service file and several hosts are as libpq has them.
func TestALedgerIsReachedAsLibpqDoesIt(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	owner := need.Get(Create(ctx, c.URL("ledger"), Options{}))(t)
	need.OK(t, owner.MakeRoles(ctx))
	need.OK(t, owner.Close())
	ca, cert, key := authority(t, "ours")
	wrong, _, _ := authority(t, "another")
	holder := need.Get(os.Stat(c.Data()))(t).Sys().(*syscall.Stat_t)
	hba := filepath.Join(c.Data(), "pg_hba.conf")
	rules := append([]byte("hostssl all ci all scram-sha-256\nhostnossl all ci all reject\n"), need.Get(os.ReadFile(hba))(t)...)
	for name, text := range map[string][]byte{"server.crt": cert, "server.key": key, "pg_hba.conf": rules} {
		path := filepath.Join(c.Data(), name)
		need.OK(t, os.WriteFile(path, text, 0o600))
		need.OK(t, os.Chown(path, int(holder.Uid), int(holder.Gid)))
	}
	for _, sql := range []string{"CREATE ROLE ci LOGIN PASSWORD '" + secret + "'", "GRANT indoubt_writer TO ci", "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"} {
		need.OK(t, c.Exec("ledger", sql))
	}
	standby := pgtest.Start(t, pgtest.Options{From: c})

	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		need.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ours, theirs := file("ca.pem", string(ca)), file("wrong.pem", string(wrong))
	pass, badPass := file("pgpass", "127.0.0.1:*:*:ci:"+secret+"\nlocalhost:*:*:ci:"+secret+"\n"), file("badpass", "*:*:*:ci:not "+secret+"\n")
	service := file("pg_service.conf", fmt.Sprintf("[payments]\nhost=127.0.0.1\nport=%d\ndbname=ledger\nuser=ci\nsslmode=verify-full\n", c.Port))
	at := func(hosts, more string) string { return "postgres://ci@" + hosts + "/ledger?" + more }
	here, there := fmt.Sprintf("127.0.0.1:%d", c.Port), fmt.Sprintf("127.0.0.1:%d", standby.Port)
	for _, x := range []struct {
		name, address, ca, pass, says string // says nothing where it opens
	}{
		{"in full, by the address", at(here, "sslmode=verify-full&sslrootcert="+ours), "", pass, ""},
		{"in full, by the environment", at(here, "sslmode=verify-full"), ours, pass, ""},
		{"a service file", "postgres:///?service=payments", ours, pass, ""},
		{"the first host is away", at("127.0.0.1:1,"+here, "sslmode=verify-full"), ours, pass, ""},
		{"the first host is a standby", at(there+","+here, "sslmode=verify-full&target_session_attrs=read-write"), ours, pass, ""},
		{"another authority", at(here, "sslmode=verify-full"), theirs, pass, "certificate signed by unknown authority; name the authority"},
		{"no authority", at(here, "sslmode=verify-full"), "", pass, "PGSSLROOTCERT"},
		{"another name", at(fmt.Sprintf("localhost:%d", c.Port), "sslmode=verify-full"), ours, pass, "PGSSLROOTCERT"},
		{"not encrypted", at(here, "sslmode=disable"), ours, pass, "have the server's pg_hba.conf"},
		{"another password", at(here, "sslmode=verify-full"), ours, badPass, "password authentication failed"},
		{"a standby alone", at(there, "sslmode=verify-full"), ours, pass, "can only be read"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Setenv("PGSSLROOTCERT", x.ca)
			t.Setenv("PGPASSFILE", x.pass)
			t.Setenv("PGSERVICEFILE", service)
			s, err := Open(ctx, x.address, Options{})
			if x.says == "" {
				need.OK(t, err)
				defer s.Close()
				need.Get(ledger.Begin(ctx, s, begun(x.name)))(t)
				for _, f := range s.Examine(ctx) {
					need.That(t, f.Check != "connection" || f.Found == "encrypted", "it is %s", f.Found)
				}
				return
			}
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), x.says) || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
				t.Errorf("%v, want %q", err, x.says)
			}
		})
	}
}
