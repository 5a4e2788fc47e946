// Caddy with the module of this edge.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "svc.test/edge-module"
)

func main() {
	caddycmd.Main()
}
