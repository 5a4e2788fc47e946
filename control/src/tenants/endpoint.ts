import { endpointFor, fileEndpointFor } from "../http/endpoint.ts";
import type { TenantContext } from "./context.ts";

/** See `endpointFor`. */
export const endpoint = endpointFor<TenantContext>();

/** See `fileEndpointFor`. */
export const fileEndpoint = fileEndpointFor<TenantContext>();
