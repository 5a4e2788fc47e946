import { randomInt } from "node:crypto";
import type { Answer, CallOptions, TestApi } from "../testing.ts";
import type { ContractRoute } from "./contract.ts";
import { exampleBody } from "./examples.ts";
import { fillPath } from "./targets.ts";

export interface Visit {
  route: Pick<ContractRoute, "method" | "path">;
  params: Readonly<Record<string, string>>;
  options: CallOptions;
  query?: string | undefined;
}

const someAddress = () => `10.${randomInt(256)}.${randomInt(256)}.${1 + randomInt(254)}`;

/** Calls a route with its example, from an address of its own: whoever counts bad guesses by address counts one. */
export function visit(api: TestApi, { route, params, options, query }: Visit): Promise<Answer> {
  const path = fillPath(route.path, params) + (query === undefined ? "" : `?${query}`);
  const body = route.method === "GET" ? undefined : exampleBody(api.context.random, route);
  return api.call(route.method, path, {
    ...(body !== undefined && { body }),
    ...options,
    headers: { "x-forwarded-for": someAddress(), ...options.headers },
  });
}
