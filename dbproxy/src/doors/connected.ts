import type { Socket } from "node:net";

/** Whether a socket that is being connected gets there before `signal` aborts; one that does not is destroyed. Its errors are heard from now on. */
export function connected(socket: Socket, event: "connect" | "secureConnect", signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = (isThere: boolean): void => {
      signal.removeEventListener("abort", giveUp);
      socket.off(event, arrive);
      socket.off("close", giveUp);
      if (!isThere) socket.destroy();
      resolve(isThere);
    };
    const arrive = (): void => settle(true);
    const giveUp = (): void => settle(false);
    // `close` follows, and says all that matters.
    socket.on("error", () => {});
    socket.once(event, arrive);
    socket.once("close", giveUp);
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp, { once: true });
  });
}
