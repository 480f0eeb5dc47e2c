// Market is the command line and the MCP server of the market that the tests make.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2])
		return
	}
	os.Exit(find(os.Args[2], os.Args[3:]))
}

// find asks the market for NAME=VALUE…, and with - for the token that is on standard
// input.
func find(base string, args []string) int {
	q := url.Values{}
	for _, a := range args {
		if a == "-" {
			var in struct{ Token string }
			if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 2
			}
			q.Set("ref", in.Token)
			continue
		}
		name, value, _ := strings.Cut(a, "=")
		if value != "" {
			q.Set(name, value)
		}
	}
	res, err := http.Get(base + "/things?" + q.Encode())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer res.Body.Close()
	_, _ = io.Copy(os.Stdout, res.Body)
	if res.StatusCode != 200 {
		return 1
	}
	return 0
}

// serve is an MCP server in front of the market.
func serve(base string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "market", Version: "1"}, nil)
	tool := func(name string, a *mcp.ToolAnnotations, do func(args map[string]any) (*http.Response, error)) {
		s.AddTool(&mcp.Tool{Name: name, Annotations: a, InputSchema: map[string]any{"type": "object"}},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var args map[string]any
				_ = json.Unmarshal(r.Params.Arguments, &args)
				res, err := do(args)
				if err != nil {
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode >= 300 {
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: res.Status}}}, nil
				}
				if !json.Valid(body) {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(body)}}}, nil
				}
				return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: json.RawMessage(body)}, nil
			})
	}
	tool("find", &mcp.ToolAnnotations{ReadOnlyHint: true}, func(args map[string]any) (*http.Response, error) {
		q := url.Values{}
		for name, v := range args {
			q.Set(name, fmt.Sprint(v))
		}
		return http.Get(base + "/things?" + q.Encode())
	})
	tool("write", nil, func(args map[string]any) (*http.Response, error) {
		body, _ := json.Marshal(args)
		req, err := http.NewRequest(http.MethodPost, base+"/things", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("X-Op", fmt.Sprint(args["op"]))
		client := http.Client{Timeout: 5 * time.Second}
		return client.Do(req)
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}
