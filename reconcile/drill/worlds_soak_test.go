//go:build soak && !race

package drill

func init() {
	worlds, wideWorlds = 120, map[string]int{"http": 150, "sql": 20, "mcp": 8, "command": 6}
}
