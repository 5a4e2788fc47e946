/** Who hears of a wish to end: this process, or the one that restarted it under a newer Node and passes on what it hears. */
export type Hearer = "us" | "starter";

/**
 * What to do at each wish to end: the first stops the command, which then says what it has done; who asks twice wants
 * the process to end at once. One press of Ctrl-C is heard by every process at the terminal, so it may come from both.
 */
export function createStop(): (hearer: Hearer) => "stop" | "exit" | "nothing" {
  const heard = { us: 0, starter: 0 };
  return (hearer) => {
    const before = Math.max(heard.us, heard.starter);
    heard[hearer]++;
    const times = Math.max(heard.us, heard.starter);
    if (times === before) return "nothing";
    return times === 1 ? "stop" : "exit";
  };
}
