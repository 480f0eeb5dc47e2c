// The colours of the terminal itself; the program's own are asked of it.
export const themes = {
  dark: {
    background: "#14161b", foreground: "#d7dae0", cursor: "#d7dae0", cursorAccent: "#14161b", selectionBackground: "#3a4152",
    black: "#1d2027", red: "#ec7a7a", green: "#8cc570", yellow: "#e2b55e", blue: "#6ea8ec", magenta: "#c793e0", cyan: "#5cc4c4", white: "#c4c8d0",
    brightBlack: "#7a8190", brightRed: "#ff9a94", brightGreen: "#a9df8c", brightYellow: "#f5cf7c", brightBlue: "#8fc0ff", brightMagenta: "#dcb0f2", brightCyan: "#7fdede", brightWhite: "#f3f4f6",
  },
  light: {
    background: "#fbfaf7", foreground: "#24272e", cursor: "#24272e", cursorAccent: "#fbfaf7", selectionBackground: "#d6dbe6",
    black: "#24272e", red: "#b3261e", green: "#2e7d32", yellow: "#8a5a00", blue: "#1f5fae", magenta: "#7b3fa0", cyan: "#00707a", white: "#5c616b",
    brightBlack: "#6d727d", brightRed: "#c62f26", brightGreen: "#388e3c", brightYellow: "#9c6a0a", brightBlue: "#2b6fc4", brightMagenta: "#8e4cb6", brightCyan: "#07828c", brightWhite: "#14161b",
  },
};
