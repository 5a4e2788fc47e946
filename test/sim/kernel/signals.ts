import { onAbort } from "@svc/runtime/on-abort";

/**
 * `AbortSignal.any`, as far as the product uses it. Node keeps a composite of its own for as long as that is listened to
 * and has not aborted, and one of a process that has died never does: with it, its whole world would stay.
 */
export function anySignal(signals: Iterable<AbortSignal>): AbortSignal {
  const composite = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) {
      composite.abort(signal.reason);
      break;
    }
    onAbort(signal, () => composite.abort(signal.reason));
  }
  return composite.signal;
}
