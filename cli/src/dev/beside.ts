import type { Context } from "../context.ts";

/**
 * A context for work that goes on beside a server, until `signal`: it shares the terminal with that, so that no line of
 * it changes, each says what it is about, and logs of builds stay on the platform.
 */
export function beside(context: Context, about: string, signal: AbortSignal): Context {
  const { terminal } = context;
  const told = (text: string) => `${about}: ${text}`;
  return {
    ...context,
    signal,
    api: () => context.api(signal),
    warn: (text) => context.warn(told(text)),
    onInterrupt: () => {},
    terminal: {
      ...terminal,
      interactive: false,
      animated: false,
      step: (text, mark) => terminal.step(told(text), mark),
      log: () => {},
      activity: () => ({ update: () => {}, stop: () => {} }),
    },
  };
}
