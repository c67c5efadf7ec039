# An image for students on JupyterHub: the course at its locked versions, without sources and answers.
# In the clone: docker build --file assets/jupyterhub.Dockerfile --tag autograder-course .

FROM python:3.11-slim-bookworm AS build
COPY pyproject.toml README.md LICENSE /src/
COPY assets /src/assets
COPY autograder /src/autograder
COPY notebooks /src/notebooks
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel /src

FROM python:3.11-slim-bookworm
# The major version has to be that of the hub.
ARG JUPYTERHUB=6.1.1
COPY requirements /opt/requirements
COPY --from=build /wheel /opt/wheel
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement /opt/requirements/lock.txt
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu --requirement /opt/requirements/torch.txt
RUN pip install --no-cache-dir --no-deps /opt/wheel/autograd_er-*.whl
RUN pip install --no-cache-dir "jupyterhub==$JUPYTERHUB" && pip check
RUN useradd --create-home --uid 1000 student
USER student
WORKDIR /home/student
CMD ["jupyterhub-singleuser"]
