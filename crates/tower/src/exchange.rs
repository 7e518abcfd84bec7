//! One request and its response.

use core::future::poll_fn;
use core::net::SocketAddr;
use core::task::Poll;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bytes::Bytes;
use clearway::http3::{Body, Error, RecvBody, Responder, TunnelRequest};
use http::{Extensions, Request, Response, StatusCode};
use tower_service::Service;

use crate::body::{RequestBody, ResponseBody};
use crate::failure::{FailureReason, Hook, Reporter};
use crate::{BoxError, date};

/// What applies to every request.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) hook: Option<Hook>,
    /// Adds the extension for the client's address.
    pub(crate) extend: Option<Extend>,
}

type Extend = Box<dyn Fn(SocketAddr, &mut Extensions) + Send + Sync>;

impl Settings {
    /// Adds the configured extensions to a request, and returns the reporter of its failures.
    pub(crate) fn prepare<B>(
        &self,
        request: &mut Request<B>,
        remote_address: SocketAddr,
    ) -> Reporter {
        let reporter =
            Reporter { hook: self.hook.clone(), remote_address, version: request.version() };
        if let Some(extend) = &self.extend {
            extend(remote_address, request.extensions_mut());
        }
        reporter
    }
}

/// The outcome of waiting until a service is ready.
pub(crate) enum Readiness<S> {
    /// The service can be called once.
    Ready(S),
    Failed(BoxError),
    Panicked(Box<dyn Any + Send>),
}

/// Waits until a service is ready for a request.
pub(crate) async fn readiness<S, Q>(mut service: S) -> Readiness<S>
where
    S: Service<Q, Error: Into<BoxError>>,
{
    let ready =
        poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| service.poll_ready(context))) {
            Ok(ready) => ready.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        });
    match ready.await {
        Ok(Ok(())) => Readiness::Ready(service),
        Ok(Err(error)) => Readiness::Failed(error.into()),
        Err(panic) => Readiness::Panicked(panic),
    }
}

/// Returns the service's response; 500 (Internal Server Error) if the service fails.
pub(crate) async fn answer<S, B>(
    service: Readiness<S>,
    request: Request<RequestBody>,
    reporter: Reporter,
) -> Response<ResponseBody<B>>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error: Into<BoxError>>,
{
    let watch = reporter.watch();
    let outcome = match service {
        Readiness::Ready(mut service) => {
            service.call(request).await.map_err(|error| (FailureReason::Service, error.into()))
        }
        Readiness::Failed(error) => Err((FailureReason::NotReady, error)),
        Readiness::Panicked(panic) => resume_unwind(panic),
    };
    drop(watch);
    match outcome {
        Ok(response) => response.map(|body| ResponseBody::new(Some(body), reporter)),
        Err((reason, error)) => {
            reporter.report(reason, &*error);
            let mut response = Response::new(ResponseBody::new(None, reporter));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

/// Responds to an HTTP/3 request with the service's response, unless the request is canceled before
/// there is one.
pub(crate) async fn respond<S, B>(
    settings: &Settings,
    service: Readiness<S>,
    mut request: Request<RecvBody>,
    mut responder: Responder,
) where
    S: Service<Request<RequestBody>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    // Requests of a server have an address.
    let Some(remote_address) = responder.remote_address() else { return responder.reject() };
    let reporter = settings.prepare(&mut request, remote_address);
    let tunnel = TunnelRequest::of(&mut request);
    #[cfg(feature = "upgrade")]
    if tunnel.is_some() {
        crate::upgrade::add_extensions(&mut request);
    }
    let request = request.map(RequestBody::from);
    let mut response = tokio::select! {
        // If the response is available immediately, cancellation need not be checked.
        biased;
        response = answer(service, request, reporter.clone()) => response.map(Body::wrap),
        _ = responder.cancelled() => return,
    };
    date::add_to(response.headers_mut());
    let outcome = match tunnel {
        Some(tunnel) => tunnel.respond(responder, response).await,
        None => responder.respond(response).await,
    };
    // Errors of bodies are reported by the bodies, and all others are the client's.
    if let Err(error @ Error::Send(_)) = outcome {
        reporter.report(FailureReason::Response, &error);
    }
}
