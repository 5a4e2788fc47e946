import { createElement, StrictMode, useState } from "react";
import { createRoot, type Root } from "react-dom/client";
import { type RealtimeSubscription, type SubscribeOptions, subscribe } from "../client.ts";
import { type UseRealtimeOptions, useRealtime } from "../react.ts";

declare const document: { querySelector(selector: string): Parameters<typeof createRoot>[0] };

/** What a subscription or a component said, in its order. */
type Line = readonly [what: string, ...unknown[]];
type HookOptions = Omit<UseRealtimeOptions, "onEvent"> & { as: string };

/** What tests call in a browser, as `globalThis.page`. */
const page = {
  log: [] as Line[],
  statuses: [] as string[],
  subscription: null as RealtimeSubscription | null,

  /** `closeOn`: what line of the log closes the newest subscription. */
  subscribe(options: Omit<SubscribeOptions, "onEvent"> & { closeOn?: string }): void {
    const say = (what: string, ...words: unknown[]): void => {
      page.log.push([what, ...words]);
      const isLast = options.closeOn !== undefined && `${what} ${words[0] ?? ""}`.startsWith(options.closeOn);
      if (isLast) page.subscription?.close();
    };
    page.subscription = subscribe({
      ...options,
      onEvent: (event) => say("event", event),
      onOpen: () => say("open"),
      onStatus: (status) => say("status", status),
      onReconnect: (attempt, delayMs) => say("reconnect", attempt, delayMs),
      onError: ({ type }) => say(type),
    });
  },

  /** Shows a component in StrictMode that uses the hook. Anything that is rendered again has arrays and functions of its own. */
  render(options: HookOptions | null): void {
    root ??= createRoot(document.querySelector("main"));
    if (options !== null && setOptions !== null) setOptions(options);
    else
      root.render(options === null ? null : createElement(StrictMode, null, createElement(Shown, { first: options })));
  },
};

let root: Root | null = null;
let setOptions: ((options: HookOptions) => void) | null = null;

function Shown({ first }: { first: HookOptions }) {
  const [options, set] = useState(first);
  setOptions = set;
  const { as, ...rest } = options;
  const { connected, status } = useRealtime({ ...rest, onEvent: (event) => void page.log.push([as, event]) });
  page.statuses.push(status);
  return createElement("p", null, `${as} ${connected ? "connected" : "not connected"} ${status}`);
}

(globalThis as unknown as { page: typeof page }).page = page;
export type Page = typeof page;
