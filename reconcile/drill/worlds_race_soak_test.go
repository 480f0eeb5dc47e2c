//go:build soak && race

package drill

func init() {
	worlds, wideWorlds = 15, map[string]int{"http": 20, "sql": 5, "mcp": 2, "command": 2}
}
