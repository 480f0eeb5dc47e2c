package listen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"indoubt/ledger/lazyregexp"
)

// oauth passes the login of the server through. A client logs in to the address that it
// talks to (RFC 9728), and asks for a token for that resource (RFC 8707). Both are this
// listener's for the client and the server's for the authorization server: the addresses
// are exchanged on the way, and tokens pass unread.
type oauth struct {
	upstream *url.URL
	client   http.Client

	mu       sync.Mutex
	metadata string // where the server said that its resource is described
}

const (
	aboutResource = "/.well-known/oauth-protected-resource"
	aboutServer   = "/.well-known/oauth-authorization-server"
	aboutOpenID   = "/.well-known/openid-configuration"
	authorizePath = "/.indoubt/authorize"
	tokenPath     = "/.indoubt/token"
	maxDocument   = 1 << 20
)

func newOAuth(upstream *url.URL) *oauth {
	return &oauth{upstream: upstream, client: http.Client{Timeout: 15 * time.Second, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if via[0].Method != http.MethodGet || len(via) > 5 { // what is in it is for that address alone
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

func (o *oauth) serves(path string) bool {
	return strings.HasPrefix(path, "/.well-known/") || path == authorizePath || path == tokenPath
}

// own is this listener's address as the client wrote it.
func own(r *http.Request) string { return "http://" + r.Host }

func (o *oauth) origin() string { return o.upstream.Scheme + "://" + o.upstream.Host }

var resourceMetadata = lazyregexp.New(`resource_metadata="?([^",\s]+)"?`)

// challenge is a WWW-Authenticate of the server's, with this listener's description in
// place of its own.
func (o *oauth) challenge(r *http.Request, header string) string {
	if o == nil {
		return header
	}
	m := resourceMetadata.FindStringSubmatch(header)
	if m == nil {
		return header
	}
	if u, err := url.Parse(m[1]); err == nil && u.Scheme == o.upstream.Scheme && u.Host == o.upstream.Host {
		o.mu.Lock()
		o.metadata = m[1]
		o.mu.Unlock()
	}
	return strings.ReplaceAll(header, m[0], `resource_metadata="`+own(r)+aboutResource+strings.TrimSuffix(o.upstream.EscapedPath(), "/")+`"`)
}

func (o *oauth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case path == tokenPath && r.Method == http.MethodPost:
		o.token(w, r)
		return
	case r.Method != http.MethodGet:
		refuse(w, http.StatusMethodNotAllowed, "this is read with GET")
		return
	}
	var document map[string]any
	var err error
	switch {
	case strings.HasPrefix(path, aboutResource):
		if document, err = o.resource(r.Context()); err == nil {
			document["resource"] = own(r) + o.upstream.EscapedPath()
			if document["authorization_servers"] != nil {
				document["authorization_servers"] = []string{own(r)}
			}
		}
	case strings.HasPrefix(path, aboutServer), strings.HasPrefix(path, aboutOpenID):
		if document, err = o.server(r.Context()); err == nil {
			document["issuer"] = own(r)
			document["authorization_endpoint"], document["token_endpoint"] = own(r)+authorizePath, own(r)+tokenPath
			delete(document, "authorization_response_iss_parameter_supported") // it is the other issuer
		}
	case path == authorizePath:
		o.authorize(w, r)
		return
	default:
		refuse(w, http.StatusNotFound, "there is no such document")
		return
	}
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(document)
}

// resource is the server's description of itself.
func (o *oauth) resource(ctx context.Context) (map[string]any, error) {
	o.mu.Lock()
	said := o.metadata
	o.mu.Unlock()
	return o.first(ctx, said, o.origin()+aboutResource+strings.TrimSuffix(o.upstream.EscapedPath(), "/"), o.origin()+aboutResource)
}

// server is the authorization server's description: of the one that the server names,
// else of its own address.
func (o *oauth) server(ctx context.Context) (map[string]any, error) {
	issuer := o.origin()
	if about, err := o.resource(ctx); err == nil {
		if named, _ := about["authorization_servers"].([]any); len(named) > 0 {
			issuer = fmt.Sprint(named[0])
		}
	}
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the authorization server's address cannot be read")
	}
	at, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	return o.first(ctx, at+aboutServer+path, at+aboutOpenID+path, at+path+aboutOpenID)
}

// first is the first of these documents that there is.
func (o *oauth) first(ctx context.Context, addresses ...string) (map[string]any, error) {
	err := fmt.Errorf("the server describes no login")
	for _, address := range addresses {
		if address == "" {
			continue
		}
		req, bad := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if bad != nil {
			continue
		}
		req.Header.Set("Accept", "application/json")
		reply, bad := o.client.Do(req)
		if bad != nil {
			err = fmt.Errorf("the server's login cannot be read")
			continue
		}
		var document map[string]any
		bad = json.NewDecoder(io.LimitReader(reply.Body, maxDocument)).Decode(&document)
		reply.Body.Close()
		if reply.StatusCode == http.StatusOK && bad == nil && document != nil {
			return document, nil
		}
	}
	return nil, err
}

// aimed has the server's own address where the client named this listener's.
func (o *oauth) aimed(ctx context.Context, form url.Values) url.Values {
	form = maps.Clone(form)
	if form.Has("resource") {
		form.Set("resource", o.upstream.String())
		if about, err := o.resource(ctx); err == nil {
			if real, ok := about["resource"].(string); ok {
				form.Set("resource", real)
			}
		}
	}
	return form
}

// endpoint is an address of the authorization server.
func (o *oauth) endpoint(ctx context.Context, name string) (*url.URL, error) {
	document, err := o.server(ctx)
	if err != nil {
		return nil, err
	}
	address, _ := document[name].(string)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("the authorization server has no %s", name)
	}
	return u, nil
}

// authorize sends the browser on.
func (o *oauth) authorize(w http.ResponseWriter, r *http.Request) {
	to, err := o.endpoint(r.Context(), "authorization_endpoint")
	if err != nil {
		refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	query := to.Query()
	maps.Copy(query, o.aimed(r.Context(), r.URL.Query()))
	to.RawQuery = query.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

// token passes the request for a token on, and its answer back.
func (o *oauth) token(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxDocument)
	to, err := o.endpoint(r.Context(), "token_endpoint")
	if err == nil {
		err = r.ParseForm()
	}
	var reply *http.Response
	if err == nil {
		var req *http.Request
		if req, err = http.NewRequestWithContext(r.Context(), http.MethodPost, to.String(), strings.NewReader(o.aimed(r.Context(), r.PostForm).Encode())); err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Accept", "application/json")
			if given := r.Header.Get("Authorization"); given != "" { // the client's own, not a token
				req.Header.Set("Authorization", given)
			}
			reply, err = o.client.Do(req)
		}
	}
	if err != nil {
		refuse(w, http.StatusBadGateway, "the authorization server cannot be reached")
		return
	}
	defer reply.Body.Close()
	w.Header().Set("Content-Type", reply.Header.Get("Content-Type"))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(reply.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(reply.Body, maxDocument))
}
