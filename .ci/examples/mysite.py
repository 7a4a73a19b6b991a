"""A Django site with only the view of the example."""

from django.conf import settings

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x" * 50)

import django
from django.core.wsgi import get_wsgi_application
from django.urls import path

django.setup()

import webhooks

urlpatterns = [path("webhooks", webhooks.receive)]
application = get_wsgi_application()
