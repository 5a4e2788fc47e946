import { endpointFor } from "../http/endpoint.ts";
import type { TenantContext } from "./context.ts";

/** See `endpointFor`. */
export const endpoint = endpointFor<TenantContext>();
