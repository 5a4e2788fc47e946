/**
 * Callbacks by signal. Node looks through all listeners of a signal for each that comes: with a call or a pause of each of five thousand
 * sessions on the signal of one connection, that was a tenth of what control did.
 */
const waiting = new WeakMap<AbortSignal, { callbacks: Set<() => void>; run: () => void }>();

/** Calls `callback` once, when `signal` aborts; it must not throw. The function that is returned takes that back. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const { callbacks, run } = waiting.get(signal) ?? listenTo(signal);
  // Whoever hands the same function over twice may take each of them back.
  const own = () => callback();
  callbacks.add(own);
  return () => {
    // A signal that somebody listens to is kept for as long as it has not aborted.
    if (!callbacks.delete(own) || callbacks.size > 0) return;
    signal.removeEventListener("abort", run);
    waiting.delete(signal);
  };
}

function listenTo(signal: AbortSignal) {
  const callbacks = new Set<() => void>();
  const run = () => {
    waiting.delete(signal);
    for (const each of callbacks) {
      // One that is taken back by another is not called any more.
      callbacks.delete(each);
      each();
    }
  };
  const listening = { callbacks, run };
  waiting.set(signal, listening);
  signal.addEventListener("abort", run, { once: true });
  return listening;
}
