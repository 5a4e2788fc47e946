import { endpointFor } from "../http/endpoint.ts";
import type { IdentityContext } from "./context.ts";

/** See `endpointFor`. */
export const endpoint = endpointFor<IdentityContext>();
