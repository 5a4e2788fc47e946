/** Nobody writes longer commands: they are taken as they are, and not looked into. */
export const commandCharsMax = 4096;
