package need

import (
	"os"
	"regexp"
	"strings"
)

// Block is one on a page of the documentation, in its fences.
type Block struct {
	Language string
	Name     string // what stands behind the language
	Text     string
	Line     int
}

// Blocks are those of a page that are in a language, or all of them where it is "".
func Blocks(t T, path, language string) (out []Block) {
	t.Helper()
	text := string(Get(os.ReadFile(path))(t))
	for _, m := range regexp.MustCompile("(?ms)^```([a-z-]+) ?(\\S*)\n(.*?)^```").FindAllStringSubmatchIndex(text, -1) {
		b := Block{text[m[2]:m[3]], text[m[4]:m[5]], text[m[6]:m[7]], strings.Count(text[:m[0]], "\n") + 1}
		if language == "" || b.Language == language {
			out = append(out, b)
		}
	}
	if len(out) == 0 && language != "" {
		t.Fatal(path + " has nothing in " + language)
	}
	return out
}
