import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import type { GenService, GenServiceMethods } from "@bufbuild/protobuf/codegenv2";
import {
  type ChannelCredentials,
  type ChannelOptions,
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  type ClientUnaryCall,
  type ClientWritableStream,
  type handleBidiStreamingCall,
  type handleClientStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
  makeGenericClientConstructor,
  type requestCallback,
  type Server,
  type ServiceDefinition,
} from "@grpc/grpc-js";
import { onAbort } from "@svc/runtime/on-abort";

/** A generated service whose methods are known to the compiler. */
type Service = GenService<GenServiceMethods>;
type Methods<S extends Service> = S["method"];
type Kind = DescMethod["methodKind"];
/** What may be sent: a message, or the plain object that makes one. */
type Sent<M extends DescMessage> = MessageInitShape<M>;
type Received<M extends DescMessage> = MessageShape<M>;

type ClientCall<K extends Kind, I extends DescMessage, O extends DescMessage> = {
  unary: (
    request: Sent<I>,
    metadata: Metadata,
    options: { deadline?: Date | number },
    callback: requestCallback<Received<O>>,
  ) => ClientUnaryCall;
  server_streaming: (request: Sent<I>, metadata?: Metadata) => ClientReadableStream<Received<O>>;
  client_streaming: (metadata: Metadata, callback: requestCallback<Received<O>>) => ClientWritableStream<Sent<I>>;
  bidi_streaming: (metadata?: Metadata) => ClientDuplexStream<Sent<I>, Received<O>>;
}[K];

type Handler<K extends Kind, I extends DescMessage, O extends DescMessage> = {
  unary: handleUnaryCall<Received<I>, Sent<O>>;
  server_streaming: handleServerStreamingCall<Received<I>, Sent<O>>;
  client_streaming: handleClientStreamingCall<Received<I>, Sent<O>>;
  bidi_streaming: handleBidiStreamingCall<Received<I>, Sent<O>>;
}[K];

/** A client with one typed function per method (named as in the generated code), besides those of every grpc client. */
export type ServiceClient<S extends Service> = Omit<Client, keyof Methods<S>> & {
  [K in keyof Methods<S>]: ClientCall<Methods<S>[K]["methodKind"], Methods<S>[K]["input"], Methods<S>[K]["output"]>;
};

/** One handler per method, as grpc-js expects them; replies may be plain objects. */
export type ServiceHandlers<S extends Service> = {
  [K in keyof Methods<S>]: Handler<Methods<S>[K]["methodKind"], Methods<S>[K]["input"], Methods<S>[K]["output"]>;
};

const serializer =
  <M extends DescMessage>(schema: M) =>
  (message: MessageInitShape<M>): Buffer => {
    // `create` returns a message as it is and completes a plain object.
    const bytes = toBinary(schema, create(schema, message));
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  };

const deserializer =
  <M extends DescMessage>(schema: M) =>
  (bytes: Buffer): MessageShape<M> =>
    fromBinary(schema, bytes);

const methodDefinition = (
  service: Pick<DescService, "typeName">,
  method: DescMethod,
): MethodDefinition<MessageInitShape<DescMessage>, MessageShape<DescMessage>> => ({
  path: `/${service.typeName}/${method.name}`,
  requestStream: method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming",
  responseStream: method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming",
  requestSerialize: serializer(method.input),
  requestDeserialize: deserializer(method.input),
  responseSerialize: serializer(method.output),
  responseDeserialize: deserializer(method.output),
});

/**
 * The grpc-js definition of a generated service, keyed by the methods' generated (lower camel case)
 * names: what `server.addService` and `makeGenericClientConstructor` take. Messages are protobuf-es ones.
 */
export const serviceDefinition = (service: Pick<DescService, "typeName" | "methods">): ServiceDefinition =>
  Object.fromEntries(service.methods.map((method) => [method.localName, methodDefinition(service, method)]));

/** Adds `service` to a grpc-js server, with handlers checked against its methods. */
export function serve<S extends Service>(server: Server, service: S, handlers: ServiceHandlers<S>): void {
  server.addService(serviceDefinition(service), handlers);
}

/** A typed client of `service` at `address` (`host:port`). It connects with its first call; the caller closes it. */
export function dial<S extends Service>(
  service: S,
  address: string,
  credentials: ChannelCredentials,
  options: ChannelOptions = {},
): ServiceClient<S> {
  const Constructor = makeGenericClientConstructor(serviceDefinition(service), service.typeName);
  // The constructor makes exactly the functions that the descriptor lists; its own type does not know them.
  return new Constructor(address, credentials, options) as unknown as ServiceClient<S>;
}

/**
 * One unary call as a promise.
 *
 * @param call starts the call with the callback that it is given.
 * @param signal cancels the call; the promise then rejects with grpc code CANCELLED.
 * @throws the grpc-js ServiceError of the call.
 */
export function unary<T>(call: (callback: requestCallback<T>) => ClientUnaryCall, signal?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    let leave: (() => void) | undefined;
    const started = call((error, reply) => {
      leave?.();
      if (error) reject(error);
      else if (reply === undefined) reject(new Error("grpc reply without a message"));
      else resolve(reply);
    });
    leave = signal && onAbort(signal, () => started.cancel());
    if (signal?.aborted) started.cancel();
  });
}

/** Metadata from a plain object. */
export function metadata(fields: Record<string, string>): Metadata {
  const result = new Metadata();
  for (const [name, value] of Object.entries(fields)) result.set(name, value);
  return result;
}
