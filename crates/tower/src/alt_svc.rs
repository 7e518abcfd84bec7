//! The Alt-Svc field (RFC 7838), which advertises HTTP/3 to clients of HTTP/1.1 and HTTP/2.

use core::fmt::Write;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use http::header::ALT_SVC;
use http::{HeaderMap, HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// Adds the Alt-Svc field (RFC 7838) to the responses of a service, so that clients use HTTP/3 for
/// their next requests. A field that the service itself has set is kept.
#[derive(Clone, Debug)]
pub struct AltSvcLayer {
    value: HeaderValue,
}

impl AltSvcLayer {
    /// Advertises HTTP/3 on UDP port `port` of the same host. Clients may remember it for
    /// `max_age`, in whole seconds.
    pub fn new(port: u16, max_age: Duration) -> Self {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write!(text, "h3=\":{port}\"; ma={}", max_age.as_secs());
        let value =
            HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("clear"));
        Self { value }
    }

    /// Makes clients forget the alternatives that they remember (RFC 7838 §3), for example when
    /// HTTP/3 is turned off.
    pub fn clear() -> Self {
        Self { value: HeaderValue::from_static("clear") }
    }

    /// Adds the field to a response that has none.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        headers.entry(ALT_SVC).or_insert_with(|| self.value.clone());
    }
}

impl<S> Layer<S> for AltSvcLayer {
    type Service = AltSvc<S>;

    fn layer(&self, inner: S) -> AltSvc<S> {
        AltSvc { inner, layer: self.clone() }
    }
}

/// The service of an [`AltSvcLayer`].
#[derive(Clone, Debug)]
pub struct AltSvc<S> {
    inner: S,
    layer: AltSvcLayer,
}

impl<S, Q, A> Service<Request<Q>> for AltSvc<S>
where
    S: Service<Request<Q>, Response = Response<A>>,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = AltSvcFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        AltSvcFuture { inner: self.inner.call(request), layer: self.layer.clone() }
    }
}

pin_project! {
    /// The response of an [`AltSvc`] service.
    #[derive(Debug)]
    pub struct AltSvcFuture<F> {
        #[pin]
        inner: F,
        layer: AltSvcLayer,
    }
}

impl<F, A, E> Future for AltSvcFuture<F>
where
    F: Future<Output = Result<Response<A>, E>>,
{
    type Output = Result<Response<A>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.inner.poll(context))?;
        this.layer.add_to(response.headers_mut());
        Poll::Ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    use core::future::{Ready, ready};
    use core::task::Waker;

    use super::*;

    /// Responds with the Alt-Svc field that the request has, or fails without one.
    #[derive(Clone)]
    struct Echo;

    impl Service<Request<()>> for Echo {
        type Response = Response<()>;
        type Error = &'static str;
        type Future = Ready<Result<Response<()>, &'static str>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            Poll::Ready(Err("not ready"))
        }

        fn call(&mut self, request: Request<()>) -> Self::Future {
            if request.uri().path() == "/fails" {
                return ready(Err("failed"));
            }
            let mut response = Response::new(());
            *response.headers_mut() = request.headers().clone();
            ready(Ok(response))
        }
    }

    fn call(layer: &AltSvcLayer, request: Request<()>) -> Result<Option<String>, &'static str> {
        let mut context = Context::from_waker(Waker::noop());
        let future = core::pin::pin!(layer.layer(Echo).call(request));
        let Poll::Ready(response) = future.poll(&mut context) else { panic!("pending") };
        let value =
            response?.headers().get(ALT_SVC).map(|value| value.to_str().unwrap().to_owned());
        Ok(value)
    }

    #[test]
    fn responses_advertise_http3() {
        let layer = AltSvcLayer::new(443, Duration::from_secs(86_400));
        assert_eq!(call(&layer, Request::new(())), Ok(Some("h3=\":443\"; ma=86400".to_owned())));
        let longest = AltSvcLayer::new(u16::MAX, Duration::MAX);
        let expected = format!("h3=\":65535\"; ma={}", u64::MAX);
        assert_eq!(call(&longest, Request::new(())), Ok(Some(expected)));
        assert_eq!(call(&AltSvcLayer::clear(), Request::new(())), Ok(Some("clear".to_owned())));
    }

    #[test]
    fn the_services_own_field_and_its_errors_are_kept() {
        let layer = AltSvcLayer::new(443, Duration::from_secs(1));
        let request = Request::builder().header(ALT_SVC, "h3=\":8443\"").body(()).unwrap();
        assert_eq!(call(&layer, request), Ok(Some("h3=\":8443\"".to_owned())));
        let request = Request::builder().uri("/fails").body(()).unwrap();
        assert_eq!(call(&layer, request), Err("failed"));
        let mut context = Context::from_waker(Waker::noop());
        let is_ready = layer.layer(Echo).poll_ready(&mut context);
        assert_eq!(is_ready, Poll::Ready(Err("not ready")));
    }
}
