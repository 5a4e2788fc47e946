import { Agent, fetch, type RequestInit, type Response } from "undici";

const requestMs = 15_000;

/** Every name leads to this address of loopback: browsers treat *.localhost so by themselves, the C library does not. */
export const loopbackAgent = (options: Agent.Options = {}, address = "127.0.0.1") =>
  new Agent({
    ...options,
    connect: {
      lookup: (_host, { all }, done) => {
        if (all === true) done(null, [{ address, family: 4 }]);
        else done(null, address, 4);
      },
      // The certificates of local sites come from Caddy's own authority.
      rejectUnauthorized: false,
    },
  });

const shared = loopbackAgent();

/** Fetches a site as a visitor would; redirects are not followed. */
export const edgeFetch = (url: string, init: RequestInit = {}): Promise<Response> =>
  fetch(url, { redirect: "manual", signal: AbortSignal.timeout(requestMs), ...init, dispatcher: shared });
