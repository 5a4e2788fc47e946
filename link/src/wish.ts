/** Somebody's wish that something be done before its time, on its way to whoever does it. Several count as one. */
export type Wish = {
  make(): void;
  /** Waits until a wish was made, `timeoutMs` passed, or `signal` aborted. True: a wish was made, and is taken with this. */
  wait(timeoutMs: number, signal: AbortSignal): Promise<boolean>;
};

export function createWish(): Wish {
  let made = false;
  let wake: (() => void) | null = null;
  const take = (): boolean => {
    const taken = made;
    made = false;
    return taken;
  };
  return {
    make() {
      made = true;
      wake?.();
    },
    async wait(timeoutMs, signal) {
      if (!made && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const done = (): void => {
            clearTimeout(timer);
            signal.removeEventListener("abort", done);
            wake = null;
            resolve();
          };
          const timer = setTimeout(done, timeoutMs);
          signal.addEventListener("abort", done, { once: true });
          wake = done;
        });
      }
      return take();
    },
  };
}
